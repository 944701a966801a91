"""Show traces and other results in the terminal, as pictures or as web pages. No module here runs a model.

A trace is the record of one run of a model on a text: its tokens and the attention of all heads.

terminal/        views in the terminal: a trace, attention worked out by hand, tables
picture/         pictures as PNG, SVG or PDF: one query of a trace, or all heads of a trace
page/            a trace as one web page
evaluation/      an evaluation in the terminal and as one web page
alignment.py     an alignment in the terminal and as a picture
trace_json.py    a trace as JSON
shared_text.py   names and notes that several views show
output_file.py   write a file that the user named
"""
