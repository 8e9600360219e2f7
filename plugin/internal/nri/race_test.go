//go:build race

package nri

// slowdown is what the race detector costs.
const slowdown = 10
