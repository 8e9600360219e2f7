// Package measure holds what every line of the benchmark shares: interleaved rounds, medians with their spread, goals,
// the table and the JSON report.
//
// A line compares series of samples: ours, a peer's, and a floor below which nobody can come. Its figures are medians; the
// ratio is ours to what the goal names, and a goal is met or not by the medians alone.
package measure
