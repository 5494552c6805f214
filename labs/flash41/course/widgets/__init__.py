"""Pictures that answer: one ES module and one style sheet each, live in a notebook and without a kernel on a built page."""
