"""Traces: the attention patterns of a model, in every layer and head.

Watch any PyTorch module:

watching.py           record every attention step of a module: `regard.watching`
interception.py       see the attention calls of PyTorch code
written_out.py        recognise attention that is written out as tensor operations
sdpa_call.py          a call of torch's scaled_dot_product_attention, as a `Call`
flex_call.py          the score and the mask of a FlexAttention call
four_axes.py          give tensors of other models the axes [batch heads queries keys]
running_modules.py    find out which module is running
shared_cache.py       one copy of keys and values for all steps of a generation
answered_pattern.py   statistics in place of a pattern: `ask=Ask(…)`; answered_file.py: in a trace file
changing.py           change what heads attend to: `regard.changed`

Run a Hugging Face model:

run.py                run it and record its attention: `regard.trace`
reading.py            what it reads: text, picture or recording, and what it writes itself
encoding.py           encode a text as its inputs
media.py              read pictures and recordings
writing.py            let it write a text
attention_kind.py     the kind of attention that a module computes: encoder, decoder or cross
layer_states.py       record the vectors before, inside and after every layer
model_loading.py      load it with its tokenizer or processor
huggingface.py        make it compute its attention through regard: `regard.install`

The record:

trace.py              `Trace`
trace_file.py         save a trace to a file and load it
head.py               one head of a trace, indexed by tokens
check.py              compare recomputed contexts with those of the kernels
readable_tokens.py    `Token`: a token with its readable text
token_reference.py    find a token by its position or its text
places.py             where a token is in a picture or a recording
focus.py              choose the query token and the head that a view shows
comparison.py         where two traces part: `regard.compare`
roles.py              what every head looks at; scan.py: over a file of texts
"""
