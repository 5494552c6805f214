"""Grading the lab steps: `make grade STEP=3B SUBMISSIONS=folder OUT=folder`. For instructors; not installed with the package.

files      who handed in what, and when          collecting  the functions out of a file, a clean notebook with them
sandbox    an answer's own process, seen from outside; worker and fence run inside it, values is what they speak
marking    points and words for one file         batch       a whole folder: two at a time, resumable, one row each
feedback   a page per student                    gradebook   the same for nbgrader
"""
