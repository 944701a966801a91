"""The recurrent encoder-decoder, whose decoder attends to every state of the encoder."""
