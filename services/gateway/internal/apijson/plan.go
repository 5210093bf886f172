package apijson

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	apiv1 "github.com/sluiceio/sluice/gen/go/sluice/api/v1"
)

// A plan is how the messages of one type stand in JSON. Plans are made once a
// type and never change.
type plan struct {
	fields []*fieldPlan // in the order of the field numbers
	byName map[string]*fieldPlan
	// The map whose entries stand in the object itself; nil for most types.
	flat *fieldPlan
}

// A fieldPlan is how one field stands in JSON.
type fieldPlan struct {
	protoreflect.FieldDescriptor
	name          string
	nullValue     *int64
	text          bool
	nullWhenUnset bool
	omitZero      bool
}

var plans sync.Map // protoreflect.MessageDescriptor to *plan

func planOf(d protoreflect.MessageDescriptor) (*plan, error) {
	if p, ok := plans.Load(d); ok {
		return p.(*plan), nil
	}
	p, err := makePlan(d)
	if err != nil {
		return nil, fmt.Errorf("JSON of %s: %w", d.FullName(), err)
	}
	plans.Store(d, p)
	return p, nil
}

func makePlan(d protoreflect.MessageDescriptor) (*plan, error) {
	p := &plan{byName: make(map[string]*fieldPlan)}
	for i := range d.Fields().Len() {
		fd := d.Fields().Get(i)
		f, err := makeFieldPlan(fd)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", fd.Name(), err)
		}
		rule := ruleOf(fd)
		if !rule.GetFlatten() {
			p.fields = append(p.fields, f)
			p.byName[f.name] = f
			continue
		}
		if !fd.IsMap() || p.flat != nil {
			return nil, fmt.Errorf("field %s: only one map can be flattened", fd.Name())
		}
		p.flat = f
	}
	slices.SortFunc(p.fields, func(a, b *fieldPlan) int { return cmp.Compare(a.Number(), b.Number()) })
	return p, nil
}

func makeFieldPlan(fd protoreflect.FieldDescriptor) (*fieldPlan, error) {
	rule := ruleOf(fd)
	f := &fieldPlan{
		FieldDescriptor: fd,
		name:            string(fd.Name()),
		text:            rule.GetText(),
		nullWhenUnset:   rule.GetNullWhenUnset(),
		omitZero:        rule.GetOmitZero(),
	}
	if rule != nil {
		f.nullValue = rule.NullValue
	}
	value := fd
	if fd.IsMap() {
		if k := fd.MapKey().Kind(); !isInt(k) && k != protoreflect.StringKind {
			return nil, fmt.Errorf("map key of kind %s", k)
		}
		value = fd.MapValue()
	}
	switch k := value.Kind(); {
	case isInt(k), k == protoreflect.BoolKind, k == protoreflect.StringKind, k == protoreflect.BytesKind, k == protoreflect.MessageKind:
	default:
		return nil, fmt.Errorf("kind %s", k)
	}
	if f.nullValue != nil && (fd.Kind() != protoreflect.Int64Kind || fd.IsList() || fd.IsMap()) {
		return nil, fmt.Errorf("null_value on a field that is no int64")
	}
	return f, nil
}

// isInt tells the kinds of integers that our protos use. Unsigned 64-bit ones
// are not among them: half of their range is beyond every JSON reader.
func isInt(k protoreflect.Kind) bool {
	return k == protoreflect.Int32Kind || k == protoreflect.Int64Kind
}

func ruleOf(fd protoreflect.FieldDescriptor) *apiv1.JsonRule {
	rule, _ := proto.GetExtension(fd.Options(), apiv1.E_Json).(*apiv1.JsonRule)
	return rule
}
