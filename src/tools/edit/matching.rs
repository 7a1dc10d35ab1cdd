//! Finding the text that an edit means, without guessing.
