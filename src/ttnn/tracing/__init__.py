"""How an operation's parameters become a file: what is written (`serialize`), and where and under which number (`folder`)."""
