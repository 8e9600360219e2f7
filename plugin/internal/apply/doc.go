// Package apply is the transaction that brings staged entries to the node, in a process of its own.
//
//	take ► choose ► check ► place shims ► journal ► write config ► last look ► restart ► verify ► settle
//	                                                     └ not clear: put back, later    └ put back, owe a restart, reject
//
// One transaction is one restart. Entries that failed together are put back together and then tried one by one, in
// their order, each beside the good ones before it. The restart of a rollback is the next try's; only after the last
// one it is a restart of its own. So N entries cost N + 2 restarts at most, whichever of them are bad, alone or together.
//
// After a crash the next Run, or Boot, reads the journal and brings the node to "before" or "after". The journal says
// what to put back, and the process of the runtime that has not seen it; if another one runs, it may have, and it is
// restarted. An apply that dies after its journal is noticed too (stage.Store.Begin), and another one ends it.
// Only one apply runs at a time (stage.Store.Lock); everything else may die meanwhile.
package apply
