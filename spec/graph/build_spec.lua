-- Tests `tlua build model.tlp -o model.c`, which writes a program as a C file. The file must compile without warnings,
-- and its results must equal those of the program in Lua bit for bit.

local torch = require "tlua"
local nn = torch.nn
local shell = require "spec.support.shell"

local tlua = shell.start()
local cc <const> = os.getenv "CC" or "cc"

-- The source of a C program that runs the program NAME for the input 0, 1/8, 2/8, ... and prints the bits of the
-- outputs.
local host <const> = [[
#include <stdio.h>
#include <tlua.h>
tl_Program *NAME_load(void);
int main(void) {
  tl_Program *p = NAME_load();
  if (p == NULL) return printf("%%s\n", tl_error()), 1;
  int64_t sizes[] = {%s};
  float in[4096], out[4096];
  for (int i = 0; i < 4096; i++) in[i] = (float)i / 8;
  tl_Tensor *x = tl_tensor_wrap(in, TL_F32, %d, sizes, NULL, NULL, NULL);
  for (int round = 0; round < %d; round++) {
    tl_Tensor *y = NULL;
    if (!tl_program_%s(p, &x, 1, &y, 1)) return printf("%%s\n", tl_error()), 1;
    size_t n = %d;
    if (!tl_tensor_read(y, TL_F32, out, n * sizeof *out)) return printf("%%s\n", tl_error()), 1;
    for (size_t i = 0; i < n; i++) printf("%%a ", (double)out[i]);
    tl_tensor_release(y);
  }
  tl_tensor_release(x);
  tl_program_free(p);
  return 0;
}
]]

local function input(sizes)
   local count = 1
   for _, size in ipairs(sizes) do count = count * size end
   return (torch.arange(count, {dtype = "float32"}) / 8):view(sizes)
end

-- Saves a program, builds it as C, runs the C program, and compares its outputs with those of the program in Lua.
local function check(folder, name, sizes, rounds, run)
   local path <const> = ("%s/%s.tlp"):format(folder, name)
   local program, x, bits, count = torch.export.load(path), input(sizes), {}, 0
   torch.manual_seed(0)
   for _ = 1, rounds do
      local y = program(x):flatten()
      count = y:numel()
      for i = 1, count do bits[#bits + 1] = ("%a"):format(y[i]:item()) end
   end
   shell.ok(("%s build %s -o %s/%s.c"):format(tlua, path, folder, name))
   local file <close> = assert(io.open(folder .. "/main.c", "w"))
   file:write((host:format(table.concat(sizes, ","), #sizes, rounds, run, count):gsub("NAME", name)))
   file:close()
   shell.ok(("%s -Wall -Wextra -Werror -Isrc -o %s/main %s/main.c %s/%s.c %s/libtlua.a -lm -ldl -lpthread"):format(cc,
      folder, folder, folder, name, shell.quote(shell.build)))
   os.remove(path)
   local theirs = {}
   for text in shell.ok(folder .. "/main"):gmatch "%S+" do theirs[#theirs + 1] = ("%a"):format(tonumber(text)) end
   assert.same(bits, theirs)
end

describe("tlua build", function()
   -- The CPU is the default device in these tests, because the C program computes on the CPU.
   local default
   setup(function()
      default = torch.get_default_device()
      torch.set_default_device("cpu")
   end)
   teardown(function() torch.set_default_device(default) end)

   it("writes programs as C, which compute the same bits", function()
      if os.getenv "SPEC_SANITIZED" == "1" then return pending "the program would need the sanitizer's options" end
      torch.manual_seed(1)
      shell.with_folder(function(folder)
         local net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))
         net:eval()
         torch.export(net, {torch.randn(2, 1, 8, 8)}, {dynamic = {input = {1}}}):save(folder .. "/net.tlp")
         check(folder, "net", {3, 1, 8, 8}, 2, "run")

         local model = nn.Linear(4, 3)
         local optimizer = torch.optim.AdamW(model:parameters(), {lr = 0.01})
         local function step(x)
            optimizer:zero_grad()
            local loss = model(x):square():mean()
            loss:backward()
            optimizer:step()
            return loss:detach()
         end
         local parts = {model = model, optimizer = optimizer}
         torch.export_step(step, {torch.randn(5, 4)}, parts):save(folder .. "/step.tlp")
         check(folder, "step", {5, 4}, 10, "step")
      end)
   end)

   it("writes to the output, and shows the program in a comment", function()
      shell.with_folder(function(folder)
         local program = torch.export(function(x) return x * 2 end, {torch.ones(3)}, {names = {"x*/y/*z"}})
         program:save(folder .. "/2x.tlp")
         local text = shell.ok(("%s build %s/2x.tlp"):format(tlua, folder))
         assert.matches("t1 = mul(x* /y/ *z, 2)", text, 1, true)
         assert.matches("tl_Program *_2x_load(void)", text, 1, true)
         text = shell.ok(("%s build %s/2x.tlp --name twice"):format(tlua, folder))
         assert.matches("tl_Program *twice_load(void)", text, 1, true)
      end)
   end)

   it("names what is wrong", function()
      local function refused(pattern, words)
         local output, status = shell.run(("%s build %s 2>&1"):format(tlua, words))
         assert.equal(1, status, output)
         assert.matches(pattern, output, 1, true)
      end
      refused("tlua build: expected a program, got no file", "")
      refused("tlua build: unknown option -x", "-x")
      refused("tlua build: -o needs a value", "a.tlp -o")
      refused("tlua build: expected one program, got a.tlp and b.tlp", "a.tlp b.tlp")
      refused("tlua build: --name: expected a name in C, got a-b", "a.tlp --name a-b")
      refused("/nonexistent.tlp", "/nonexistent.tlp")
      refused("examples/data/digits.csv", "examples/data/digits.csv")
      assert.matches("usage: tlua build MODEL.tlp", shell.ok(tlua .. " build --help"), 1, true)
      shell.with_folder(function(folder)
         torch.export(function(x) return x * 2 end, {torch.ones(3)}):save(folder .. "/a.tlp")
         refused("/nonexistent/a.c", folder .. "/a.tlp -o /nonexistent/a.c")
         refused("-o: expected another file than the program", ("%s/a.tlp -o %s/a.tlp"):format(folder, folder))
      end)
   end)
end)
