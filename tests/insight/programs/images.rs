//! Batches of images in Rust: tiles die with the image, thumbnails with the batch.
#[inline(never)]
fn shrink_image(seed: u8) -> Vec<u8> {
    let tiles: Vec<Vec<u8>> = (0..40u8).map(|i| vec![seed.wrapping_add(i); 700]).collect();
    tiles.iter().map(|tile| tile[0]).collect::<Vec<u8>>().repeat(4)
}

#[inline(never)]
fn make_album(first: u8) -> usize {
    let thumbnails: Vec<Vec<u8>> = (0..25).map(|i| shrink_image(first.wrapping_add(i))).collect();
    thumbnails.iter().map(Vec::len).sum()
}

fn main() {
    let sum: usize = (0..150u8).map(make_album).sum();
    println!("{sum}");
}
