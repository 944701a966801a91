"""Traces: the attention patterns of a model, in every layer and head.

A trace, and questions about it:

trace.py              `Trace`
patterns_by_layer.py  the patterns of one kind of attention
head.py               one head of a trace, indexed by tokens; the average over the heads of a layer
merged_pattern.py     patterns of words, and averages over heads
focus.py              choose the query token and the head that a view shows
comparison.py         find the differences of two traces: `regard.compare`
indirect_effects.py   how much of another run the output of every head restores: `regard.indirect_effects`
roles.py              what every head attends to in a text
scan.py               what every head attends to in a file of texts

Run a Hugging Face model:

run.py                run a model and record its attention: `regard.trace`
recorded_layers.py    the recorded attention calls by kind of attention and layer
reading.py            prepare the input of a model: text, picture or recording
generation.py         let a model generate text
model_loading.py      load a model with its tokenizer or processor
for_page.py           run a model for the HTML page, with the hidden vectors of all layers that the page shows

tokens/               tokens with readable text, their words, and the patch or frame that a token stands for
media/                pictures, videos and recordings as input of a model
watching/             record the attention calls of any model
files/                save a trace to a file and load it
"""
