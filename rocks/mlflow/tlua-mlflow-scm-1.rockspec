-- cd rocks/mlflow && luarocks --lua-version 5.4 make
rockspec_format = "3.0"
package = "tlua-mlflow"
version = "scm-1"
source = {url = "git+file://."}
description = {
   summary = "Keeps runs on an MLflow server, or in a folder of its format",
   license = "MIT",
}
dependencies = {"lua ~> 5.4", "tlua"}
build = {
   type = "builtin",
   modules = {
      ["tlua.mlflow.Run"] = "Run.lua",
      ["tlua.mlflow.files"] = "files.lua",
      ["tlua.mlflow"] = "init.lua",
      ["tlua.mlflow.rest"] = "rest.lua",
      ["tlua.mlflow.vocabulary"] = "vocabulary.lua",
   },
}
