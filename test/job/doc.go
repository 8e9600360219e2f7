// Package job tests the main job on a real node: installers stage, containerd is restarted once when none is in flight,
// and the result is verified or rolled back.
package job
