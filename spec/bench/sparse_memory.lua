-- sparse_memory.lua - measures the memory that operators of sparse tensors need, beside PyTorch's:
--
--    ./tlua spec/bench/sparse_memory.lua [PYTHON]
--
-- Each row runs in processes of its own. A result is the peak of resident memory minus its size at the end of the
-- setup, in megabytes. Runs on Linux only.

local matrix = {[[
local n, each = 4096, math.floor(4096 * PERCENT / 100)
local columns = (torch.arange(n):view(n, 1) * 7919 + torch.arange(each) * (n // each)) % n + 1
local pointers = torch.arange(0, n * each + 1, each) + 1
local s = torch.sparse_csr_tensor(pointers, columns:sort(2):view(-1), torch.randn(n * each), {n, n})
local x = torch.randn(n, 1024)]], [[
n, each = 4096, 4096 * PERCENT // 100
columns = (torch.arange(n).view(n, 1) * 7919 + torch.arange(each) * (n // each)) % n
pointers = torch.arange(0, n * each + 1, each)
s = torch.sparse_csr_tensor(pointers, columns.sort(1).values.view(-1), torch.randn(n * each), (n, n))
x = torch.randn(n, 1024)]]}

local function csr(percent)
   return {name = ("csr 4096² of %d %% x 4096x1024"):format(percent),
      setup = {(matrix[1]:gsub("PERCENT", percent)), (matrix[2]:gsub("PERCENT", percent))},
      lua = "r = torch.mm(s, x)", python = "r = torch.mm(s, x)"}
end

local table_of = {[[
local layer = torch.nn.Embedding(1000000, 16, {sparse = true})
local places, g = torch.randint(1, 1000001, {8192}), torch.randn(8192, 16)]], [[
layer = torch.nn.Embedding(1000000, 16, sparse=True)
places, g = torch.randint(0, 1000000, (8192,)), torch.randn(8192, 16)]]}

local rows = {
   csr(1), csr(10), csr(50),
   {name = "coalesce 1M", setup = {
      "local s = torch.sparse_coo_tensor(torch.randint(1, 1001, {2, 1000000}), torch.randn(1000000), {1000, 1000})",
      "s = torch.sparse_coo_tensor(torch.randint(0, 1000, (2, 1000000)), torch.randn(1000000), (1000, 1000))"},
      lua = "r = s:coalesce()", python = "r = s.coalesce()"},
   {name = "embedding, sparse, 8192 of 1M rows of 16", setup = table_of,
      lua = "layer(places):backward(g)", python = "layer(places).backward(g)"},
   {name = "SparseAdam, 8192 of 1M rows of 16",
      setup = {table_of[1] .. " local o = torch.optim.SparseAdam(layer:parameters()) layer(places):backward(g)",
         table_of[2] .. "\no = torch.optim.SparseAdam(layer.parameters()); layer(places).backward(g)"},
      lua = "o:step()", python = "o.step()"},
}

-- The programs print how much resident memory grows. Writing 5 to clear_refs resets the recorded peak.
local ours = [[
local function status(name) for l in io.lines "/proc/self/status" do
   local kb = l:match("^" .. name .. ":%%s*(%%d+)") if kb then return tonumber(kb) end end end
local torch = require "tlua"
torch.set_num_threads(1)
%s
collectgarbage()
local file <close> = io.open("/proc/self/clear_refs", "w") file:write "5" file:close()
local before, r = status "VmRSS"
%s
print(status "VmHWM" - before)]]

local theirs = [[
import torch
def status(name):
    return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith(name + ":"))
torch.set_num_threads(1)
%s
open("/proc/self/clear_refs", "w").write("5")
before = status("VmRSS")
%s
print(status("VmHWM") - before)]]

local function growth(command, ending, text)
   local path = os.tmpname() .. ending
   local file = assert(io.open(path, "w"))
   file:write(text)
   file:close()
   local pipe = assert(io.popen(("%s %s"):format(command, path)))
   local kb = tonumber(pipe:read "a")
   pipe:close()
   os.remove(path)
   return kb and kb / 1024
end

local python = arg[1] or "python3"
print(("%-45s %8s %8s %6s"):format("megabytes", "ours", "PyTorch", "ratio"))
for _, row in ipairs(rows) do
   local a = growth(arg[-1], ".lua", ours:format(row.setup[1], row.lua))
   local b = growth(python .. " -W ignore", ".py", theirs:format(row.setup[2], row.python))
   print(("%-45s %8.1f %8.1f %6.2f"):format(row.name, a or 0 / 0, b or 0 / 0, a and b and a / b or 0 / 0))
end
