// Package refusal marks errors that mean "not like this": nothing was tried and nothing changed. The program exits with 2.
package refusal

import "fmt"

// Error is a refusal.
type Error struct{ text string }

func (e *Error) Error() string { return e.text }

// New makes a refusal.
func New(format string, args ...any) *Error { return &Error{fmt.Sprintf(format, args...)} }
