"""Numbers of path/check-yourself."""
NAMED = {
    "position of the query in the second sum": 700,
    "the value in the third sum": 3.75,
}
EXCEPTIONS = {}
