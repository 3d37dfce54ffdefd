// Nothing: the target of the precompiled header that every user of torch here shares.
