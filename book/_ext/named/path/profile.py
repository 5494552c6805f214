"""Numbers of path/profile."""
CONTEXTS = (2**8, 2**11, 2**14, 2**16)  # tokens in the caches of the growth measurement

NAMED = {
    "longest context of the growth measurement": CONTEXTS[-1],
    "growth of the past": CONTEXTS[-1] // CONTEXTS[0],
    "sessions of the byte bill, most": 2**9,
    "width of the apprentice": 2**7,
}
EXCEPTIONS = {}
