//! Cognitive execution plane: models and tools. It may work for hours and may never speak: what it has to say goes to
//! `recado-core` as an input, and the gate decides when it is heard.
