// Package repo tests the rules that the repository sets itself.
package repo
