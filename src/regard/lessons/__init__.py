"""The lessons of `regard learn`: what attention is and does, each with numbers that the reader can follow.

lesson.py         a lesson: its texts in English and Korean, and the attention that it shows
texts/            the lessons, one TOML file each
course_page.py    all lessons as one web page
"""
