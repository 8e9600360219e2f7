// Package doctor breaks a real node in one way after another: `quiesce doctor` finds each, and finds nothing on a healthy one.
package doctor
