// Package distro runs quiesce on nodes with other containerds, and on nodes laid out as Kubernetes distributions do.
package distro
