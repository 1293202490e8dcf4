//! Values that need dropping, in a domain that does not drop.

struct Plain(#[allow(dead_code)] u8);

struct Owns(#[allow(dead_code)] Vec<u8>);

fn generic<T>(domain: &tslab::Domain, value: T) {
    domain.alloc(value); //~ `T` may need dropping
}

fn main() {
    let domain = tslab::Domain::new();
    domain.alloc(String::from("text")); //~ `std::string::String` may need dropping: use `alloc_with_drop`
    domain.alloc(Box::new(1)); //~ may need dropping: use `alloc_with_drop`
    domain.alloc(Plain(1)); //~ `Plain` may need dropping: use `alloc_with_drop`, or make it `Copy` or `tslab::NoDrop`
    let _ = domain.try_alloc(Owns(vec![1])); //~ `Owns` may need dropping: use `alloc_with_drop`
    domain.insert(vec![1]); //~ may need dropping
    domain.alloc_slice_with(3, |_| vec![1]); //~ may need dropping
    domain.alloc_slice_fill_iter([vec![1]]); //~ may need dropping
    tslab::SharedDomain::new().alloc(Owns(vec![1])); //~ `Owns` may need dropping: use `alloc_with_drop`
    tslab::Epoch::new("epoch").insert(Owns(vec![1])); //~ may need dropping
    generic(&domain, 1);
}
