// How a causal language model samples the tokens that it writes: the reader's temperature and nucleus, the same for all tokens

import { linkedRange } from "./switches";

export const temperature = linkedRange("next-temperature", 1, 0, 4); // for sampling the next token; 0 = always the most probable one
export const nucleus = linkedRange("nucleus", 1, 0.05, 1); // sample from the most probable tokens whose probabilities sum to this number
