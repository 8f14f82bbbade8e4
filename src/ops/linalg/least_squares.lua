-- Operators that solve least squares problems by singular values. See linalg.lua.

local function linalg(entry)
   entry.module = entry.internal and nil or "linalg"
   entry.method = false
   entry.host = "LAPACK"
   entry.device_lapack = true
   op(entry)
end

local squares = "(Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)"
linalg {"least_squares(Tensor A, Tensor B, float rcond) -> " .. squares,
    name = "lstsq", node = "LinalgLstsq", internal = true, materialize = false,
    grad = {["A, B"] = "lstsq_backward(grad_solution, grad_residuals, A, B, solution)"},
    nograd = {singular_values = true}}

takes_complex()
