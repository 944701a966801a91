"""Records the attention calls of a model while it runs, and changes them.

`watching.py` and `recorder.py` record the calls of any PyTorch module; `written_out.py` recognises attention among
separate tensor operations. `huggingface.py` makes a model of transformers compute its attention through regard.
"""
