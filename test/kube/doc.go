// Package kube is a node of a Kubernetes cluster for tests: etcd, API server, controller manager, scheduler and kubelet
// as units of a test node, and quiesce on it as on any lab.
//
// The node is the whole cluster and is named node1. Everything starts with the node, so it comes back after a reboot.
// The API is reached over a unix socket ([Cluster.Get]); what is written goes through the cluster's own kubectl.
// Not there: kube-proxy, DNS, service-account tokens, a registry (images are made and imported by package node).
package kube
