"""Show traces and other results in the terminal, as a picture or as a web page; nothing here runs a model.

terminal/        a trace, the matrices of worked attention, tables
picture/         a trace, all heads of a trace: PNG, SVG or PDF
page/            a trace as one web page
evaluation/      an evaluation in the terminal and as one web page
alignment.py     an alignment in the terminal and as a picture
trace_json.py    a trace as JSON
shared_text.py   names and notes that several views show
output_file.py   write a file that the user named
"""
