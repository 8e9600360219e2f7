// Package stage is the protocol on disk between installers, the daemon and apply.
//
// A stage is a directory with two rooms; the state of an entry is the directory it is in:
//
//	inbox/tmp/ID   being written by an installer
//	inbox/new/ID   staged: complete, waiting for the gate
//	inbox/live.json  what is live, a hint for installers that can see the inbox only
//	store/act/ID   copied out of the inbox and checked; being applied, or to be tried again
//	store/cur/ID   live: the newest entry that names one of its handlers
//	store/bad/ID   rejected or rolled back; state.json says why
//	store/journal.json, store/undo/   the transaction that is under way
//	store/running    there while an apply runs; without one, the last one died
//	results/ID.json  the outcome of each entry, for whoever waits
//
// Within a room a transition is one rename with both parents synced. From the inbox to the store
// an entry is copied and the copy is checked, so that no descriptor a writer kept open reaches it.
//
// Who may write: inbox, any installer (which makes it root on the node; see docs/usage/security.md);
// store, only the holder of Store.Lock; results, the daemon and apply.
//
// After a crash:
//
//	in inbox/tmp     swept after an hour
//	in inbox/new     picked up again
//	copying to act   the unfinished copy is dropped, the inbox still has the entry
//	in act           journal present: the host's files are put back, the entry is tried again
//	                 (MaxAttempts times, then it is rejected)
//	act to cur       verified before the rename, so nothing is to be done; Mend publishes the result
//	act to bad       likewise
//	.quiesce-*       a file that was being written: Mend, or the rollback, removes it
package stage
