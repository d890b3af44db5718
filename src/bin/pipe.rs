fn main() {
    println!("{}", pipe::stage::registry::kinds().len());
}
