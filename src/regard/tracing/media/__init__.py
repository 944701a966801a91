"""Pictures, videos and recordings as input of a model, and the place of each token in them.

media.py               encode pictures and videos as input tensors
recording.py           encode recordings as input tensors; which tokens are the silence after a recording
picture_layout.py      the places of tokens in pictures that are divided into one grid of patches each
merged_patches.py      pictures and videos of models that merge squares of patches
tiles.py               pictures that are cut into tiles, with a thumbnail
folded_spectrogram.py  the spectrogram of CLAP, and the place of each patch in it
wave_file.py           read WAV files
"""
