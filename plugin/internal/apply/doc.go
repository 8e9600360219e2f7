// Package apply is the transaction that brings staged entries to the node, in a process of its own.
//
//	take ► choose ► check ► place shims ► journal ► write config ► last look ► restart ► verify ► settle
//	                                                     └ not clear: put back, later    └ put back, restart, reject
//
// One transaction is one restart. Entries that failed together are put back together and then tried alone.
// After a crash the next Run, or Boot, reads the journal and brings the node to "before" or "after".
// Only one apply runs at a time (stage.Store.Lock); everything else may die meanwhile.
package apply
