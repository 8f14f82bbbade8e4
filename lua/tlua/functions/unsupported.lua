-- unsupported.lua - names of PyTorch that torch lacks, and the reasons that error messages give.

local M = {}

local function dtypes(names, of)
   for name in names:gmatch "%S+" do M[name] = ("tlua has no dtype %s"):format(of or name) end
end

dtypes [[float4_e2m1fn_x2 quint4x2 quint2x4 bits8 bits16]]
for n = 1, 7 do dtypes(("int%d uint%d"):format(n, n)) end

for name in ("Event Stream"):gmatch "%S+" do
   M[name] = ("events and streams belong to a kind of device: torch.cuda.%s"):format(name)
end
for name in ("fork wait futures"):gmatch "%S+" do
   M[name] = "tlua has no futures; torch.multiprocessing.spawn starts processes"
end
for name in ("set_warn_always is_warn_always_enabled"):gmatch "%S+" do
   M[name] = "tlua raises an error where PyTorch warns once"
end
M.lobpcg = "torch.linalg.eigh and torch.svd_lowrank find eigenvalues and singular values"
M.from_file = "torch.load(path, {mmap = true}) maps a file"
M.quantization = "torch.ao.quantization has observers, FakeQuantize and quantize_dynamic"
M.dtype = 'a dtype is a string here: torch.isinstance(x, torch.FloatTensor), x.dtype == "float32"'
M.layout = 'a layout is a string here: x.layout == "strided"'
M.memory_format = "a memory format is a string here, such as torch.channels_last"

return M
