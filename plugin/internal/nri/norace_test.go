//go:build !race

package nri

const slowdown = 1
