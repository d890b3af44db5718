fn main() {
    println!("{:?}", tch::Tensor::from_slice(&[1f32, 2.]) + 1.0);
}
