// How a causal language model's next token is drawn: one temperature and one nucleus for all tokens that it writes

import { linkedRange } from "./switches";

export const temperature = linkedRange("next-temperature", 1, 0, 4); // 0 = the likeliest token
export const nucleus = linkedRange("nucleus", 1, 0.05, 1); // a token is drawn from the likeliest tokens whose probabilities together reach this number
