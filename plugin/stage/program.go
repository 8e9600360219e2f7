package stage

import (
	"debug/elf"
	"fmt"
	"runtime"
)

// machines are the ELF machines of the architectures quiesce is built for.
var machines = map[string]elf.Machine{
	"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "riscv64": elf.EM_RISCV, "ppc64le": elf.EM_PPC64, "s390x": elf.EM_S390, "arm": elf.EM_ARM,
}

// checkProgram refuses what this node cannot execute.
func (t *Tree) checkProgram(at, name string) error {
	f, _, err := t.openRegular(at)
	if err != nil {
		return err
	}
	defer f.Close()
	e, err := elf.NewFile(f)
	if err != nil {
		return payloadError{fmt.Errorf("file %s: is not an ELF program", name)}
	}
	if e.Type != elf.ET_EXEC && e.Type != elf.ET_DYN {
		return payloadError{fmt.Errorf("file %s: is an ELF file of type %v, not a program", name, e.Type)}
	}
	if want := machines[runtime.GOARCH]; e.Machine != want {
		return payloadError{fmt.Errorf("file %s: is built for %v, this node is %v", name, e.Machine, want)}
	}
	return nil
}
