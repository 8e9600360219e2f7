//go:build !chaos

package failpoint

// At does nothing.
func At(string) {}
