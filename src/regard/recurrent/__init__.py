"""A recurrent encoder-decoder (LSTM or GRU) whose decoder attends to the states of the encoder."""
