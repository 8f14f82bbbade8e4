// Does in Rust what run.c does in C: runs the program of export.lua on a file of digits.
//
//     rustc --edition 2021 -C link-args="$PWD/build/libtlua.a -lm -lgcc -lc" -o run examples/deploy/run.rs
//     ./run digits.tlp examples/data/digits.csv
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};

// The functions of tlua.h that the program calls.
#[repr(C)]
struct Program([u8; 0]);
#[repr(C)]
struct Tensor([u8; 0]);
const F32: c_int = 0; // TL_F32
extern "C" {
    fn tl_program_load(path: *const c_char) -> *mut Program;
    fn tl_program_run(program: *mut Program, inputs: *const *mut Tensor, ninputs: c_int,
                      outputs: *mut *mut Tensor, noutputs: c_int) -> bool;
    fn tl_program_free(program: *mut Program);
    fn tl_tensor_wrap(data: *mut c_void, dtype: c_int, ndim: c_int, sizes: *const i64, strides: *const i64,
                      release: *const c_void, context: *mut c_void) -> *mut Tensor;
    fn tl_tensor_release(tensor: *mut Tensor);
    fn tl_error() -> *const c_char;
}

fn wrap(data: &mut [f32], sizes: &[i64]) -> *mut Tensor {
    unsafe {
        tl_tensor_wrap(data.as_mut_ptr().cast(), F32, sizes.len() as c_int, sizes.as_ptr(), null(), null(), null_mut())
    }
}

// Returns the ten scores of each image, or the library's message.
fn run(path: &str, images: &mut [f32], n: usize) -> Result<Vec<f32>, String> {
    let mut scores = vec![0.0f32; 10 * n];
    let path = CString::new(path).map_err(|e| e.to_string())?;
    unsafe {
        let program = tl_program_load(path.as_ptr());
        let input = wrap(images, &[n as i64, 1, 8, 8]);
        let mut output = wrap(&mut scores, &[n as i64, 10]);
        let ok = !program.is_null() && !input.is_null() && !output.is_null()
            && tl_program_run(program, &input, 1, &mut output, 1);
        let message = CStr::from_ptr(tl_error()).to_string_lossy().into_owned();
        tl_tensor_release(input);
        tl_tensor_release(output);
        tl_program_free(program);
        if ok { Ok(scores) } else { Err(message) }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.len() != 3 {
        eprintln!("usage: run digits.tlp digits.csv");
        std::process::exit(2);
    }
    let text = std::fs::read_to_string(&arguments[2]).expect("the file of digits cannot be read");
    // Each line has 64 pixels from 0 to 16 and the digit.
    let rows: Vec<Vec<f32>> = text.lines().map(|l| l.split(',').map(|f| f.trim().parse().unwrap_or(0.0)).collect()).collect();
    let mut images: Vec<f32> = rows.iter().flat_map(|row| row[..64].iter().map(|pixel| pixel / 16.0)).collect();
    match run(&arguments[1], &mut images, rows.len()) {
        Ok(scores) => {
            let best = |s: &[f32]| (0..10).fold(0, |best, i| if s[i] > s[best] { i } else { best });
            let right = rows.iter().zip(scores.chunks(10)).filter(|(row, s)| best(s) == row[64] as usize).count();
            println!("{} of {} digits read right", right, rows.len());
        }
        Err(message) => {
            eprintln!("run: {}", message);
            std::process::exit(1);
        }
    }
}
