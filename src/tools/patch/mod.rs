//! `apply_patch`: several changes to several files in one text (the V4A envelope).
