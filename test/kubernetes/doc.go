// Package kubernetes proves the stories of installers and drains on real Kubernetes nodes, see package kube.
package kubernetes
