//! Trapped BARs: pages that fault, and the loads and stores that are carried out instead.
