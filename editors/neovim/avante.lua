-- Hermes as the provider of avante.nvim.
require("avante").setup({
  provider = "hermes",
  acp_providers = {
    hermes = {
      command = "/path/to/hermes-editor",
      args = {},
      env = {},
    },
  },
})
