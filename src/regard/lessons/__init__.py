"""The lessons of `regard learn`, which explain what attention is and does, with numbers that the reader can follow.

lesson.py         read a lesson: its texts in English and Korean, and which attention it shows
texts/            one TOML file for each lesson
terminal.py       the attention of a lesson on the terminal
course_page.py    all lessons as one web page
"""
