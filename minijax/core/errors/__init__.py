"""Every exception and its wording, as functions of plain data, a file a topic.

A call site reads `raise errors.unbound_axis(name)`: the sentence stands here, where
it can be compared with upstream's, and not between lines of logic. Where upstream has
a message ours begins with it, word for word, and may go on to say what helps.
"""
