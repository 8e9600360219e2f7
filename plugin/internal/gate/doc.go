// Package gate decides when staged entries may be applied.
//
//	Idle ──pending──► Collecting ──no blocker for a quiet period──► Applying ──apply ended──► Idle
//	  any ──hold──► Held ──release──► Idle
//
// A Gate is pure: Decide takes what is known at a moment and says what to do. It does no I/O, starts no goroutine and
// reads no clock. Blockers fail closed: what is not known counts as being in the way.
package gate
