//! Servers of the Model Context Protocol, and exactly what is said of those that are not right.

use super::*;

/// What is said of a server at an address with `more` in its table, without what comes before the setting.
fn said(more: &str) -> String {
    said_of(&format!("[mcp.office]\nurl = \"https://tools.example/mcp\"\n{more}\n"))
}

#[test]
fn a_server_at_an_address_or_a_program_with_tools_left_to_it_is_right() {
    let room = Room::with(
        "[mcp.office]\nurl = \"https://tools.example/mcp\"\nbearer_file = \"token\"\nca_file = \"ca.pem\"\nheaders = { X-Branch = \"12\" }\n\
         tools = [\"*\"]\nexcept = [\"admin.*\"]\nprefix = \"office_\"\n\
         [mcp.door]\nprogram = \"bin/door\"\narguments = [\"stdio\"]\nenvironment = { KEY = \"token\" }\n\
         [[tools]]\nname = \"open\"\nmcp = \"door\"\nmcp_tool = \"door.open\"\nsay_done.es = \"Abierta.\"\n\
         [[tools]]\nname = \"shut\"\nmcp = \"door\"\nidempotent = false\nsay_done.es = \"Cerrada.\"\n",
    );
    room.write("token", "secret\n");
    room.write("ca.pem", "");
    room.write("bin/door", "#!/bin/sh\n");
    std::fs::set_permissions(room.path("bin/door"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (config, warnings) = room.load().unwrap();
    assert!(warnings.is_empty(), "{warnings}");
    let office = &config.mcp["office"];
    assert_eq!(office.bearer_file.as_ref(), Some(&room.path("token")));
    assert!(office.wants("tables.book") && !office.wants("admin.delete"));
    assert_eq!(config.mcp["door"].program.as_ref(), Some(&room.path("bin/door")));
    assert!(!config.mcp["door"].wants("door.shut"), "nothing is left to it");
    assert_eq!(config.tools.iter().map(|tool| tool.hinted).collect::<Vec<_>>(), [true, false]);
    let summary = config.summary().to_string();
    assert!(summary.contains("The MCP server office is asked at each start what it offers of *: that are tools too.\n"), "{summary}");
    assert!(summary.contains("  open: of the MCP server door, "), "{summary}");
}

#[test]
fn each_mistake_in_a_server_is_named_with_its_place_and_a_remedy() {
    for (more, expected) in [
        (
            "tools = [\"\"]",
            "recado.toml:3:10: mcp.office.tools: the name of a tool has 1 to 256 bytes; write instead: a name, as the server has it, or \"*\" for every tool",
        ),
        (
            "tools = [\"*\"]\nexcept = [\"x\", \" \"]",
            "recado.toml:4:16: mcp.office.except: the name of a tool has 1 to 256 bytes; write instead: a name, as the server has it, or \"*\" for every tool",
        ),
        (
            "tools = [\"*\"]\nprefix = \"my office.\"",
            "recado.toml:4:10: mcp.office.prefix: a prefix has up to 32 letters, digits, `_` and `-`, for models take no other names; write instead: prefix = \"office_\"",
        ),
        (
            "except = [\"x\"]",
            "recado.toml:3:10: warning: mcp.office.except: it has no tools but those that [[tools]] name; write instead: tools = [\"*\"]",
        ),
        (
            "prefix = \"x_\"",
            "recado.toml:3:10: warning: mcp.office.prefix: it has no tools but those that [[tools]] name; write instead: tools = [\"*\"]",
        ),
        ("timeout_ms = 1", "recado.toml:3:14: mcp.office.timeout_ms: 1 is outside of 100 to 60000; write instead: timeout_ms = 100"),
        ("concurrency = 65", "recado.toml:3:15: mcp.office.concurrency: 65 is outside of 1 to 64; write instead: concurrency = 64"),
        (
            "program = \"/bin/true\"",
            "recado.toml:3:11: mcp.office.program: a server has an address or is a program, not both; write instead: url = \"https://tools.example/mcp\", or program = \"/usr/local/bin/server\"",
        ),
        (
            "arguments = [\"x\"]",
            "recado.toml:3:13: mcp.office.arguments: a server with an address is given none; write instead: program, or no arguments",
        ),
        (
            "environment = { A = \"b\" }",
            "recado.toml:3:1: mcp.office.environment: a server with an address has none; write instead: program, or no environment",
        ),
    ] {
        assert_eq!(said(more), expected, "{more}");
    }
    let many = format!("tools = [{}]", "\"x\", ".repeat(129));
    assert_eq!(said(&many), "recado.toml:3:9: mcp.office.tools: 129 names are more than 128; write instead: tools = [\"tables.*\"]");
}

#[test]
fn a_server_that_is_nowhere_or_has_no_name_for_a_file_is_refused() {
    let where_it_is = "url = \"https://tools.example/mcp\", or program = \"/usr/local/bin/server\"";
    assert_eq!(
        said_of("[mcp.office]\n"),
        format!("recado.toml:1:6: mcp.office: it does not say where the server is; write instead: {where_it_is}")
    );
    assert_eq!(
        said_of("[mcp.\"../office\"]\nurl = \"https://tools.example/mcp\"\n"),
        "recado.toml:1:6: mcp.../office: the name of a server is 1 to 64 letters, digits, `_` and `-`; write instead: [mcp.___office]"
    );
    let said = said_of("[mcp.office]\nurl = \"https://me:secret@tools.example/mcp\"\n");
    assert!(said.starts_with("recado.toml:2:7: mcp.office.url: a URL is logged, and this one holds a credential"), "{said}");
    assert!(!said.contains("secret"), "{said}");
    for url in ["tools.example", "ftp://tools.example/", "https://tools.example:0/"] {
        let said = said_of(&format!("[mcp.office]\nurl = {url:?}\n"));
        assert!(said.contains("mcp.office.url: ") && said.ends_with("write instead: url = \"https://tools.example/mcp\""), "{said}");
    }
    let said = said_of("[mcp.office]\nprogram = \"server\"\nbearer_file = \"recado.toml\"\n");
    assert!(said.contains("mcp.office.bearer_file: a program is sent nothing over HTTP; write instead: environment, "), "{said}");
}

#[test]
fn a_tool_of_a_server_names_one_that_there_is_and_has_nothing_of_another_kind() {
    let tool = |more: &str| {
        said_of(&format!("[mcp.office]\nurl = \"https://tools.example/mcp\"\n[[tools]]\nname = \"t\"\nsay_done.es = \"Hecho\"\n{more}\n"))
    };
    assert_eq!(tool("mcp = \"office\""), "");
    assert_eq!(tool("mcp = \"ofice\""), "recado.toml:6:7: tool \"t\": mcp: there is no table [mcp.ofice]; write instead: mcp = \"office\"");
    assert_eq!(
        tool("mcp = \"home\""),
        "recado.toml:6:7: tool \"t\": mcp: there is no table [mcp.home]; write instead: a table [mcp.home] with url or program"
    );
    assert!(
        tool("url = \"https://crm.example/\"\nmcp_tool = \"x\"")
            .contains("mcp_tool: it does not say which server has it; write instead: mcp = ")
    );
    let said = tool("mcp = \"office\"\nurl = \"https://crm.example/\"");
    assert!(
        said.contains("url: a tool of an MCP server has none of its own; write instead: this in the server's table, or nothing"),
        "{said}"
    );
    assert_eq!(tool("mcp = \"office\"\nretry = { attempts_max = 3 }"), "", "the server may say that it is idempotent");
    let said = tool("mcp = \"office\"\nidempotent = false\nretry = { attempts_max = 3 }");
    assert!(said.contains("this tool is not idempotent"), "{said}");
}

#[test]
fn a_program_is_run_with_arguments_and_variables_that_there_can_be_and_a_larger_model_uses_no_tool_of_a_server() {
    let said = said_of("[mcp.door]\nprogram = \"sh\"\narguments = [\"a\\u0000b\"]\nenvironment = { \"A=B\" = \"recado.toml\" }\n");
    assert!(said.contains("mcp.door.arguments: an argument holds no NUL; write instead: \"ab\""), "{said}");
    assert!(said.contains("a variable's name is letters, digits and `_`; write instead: API_KEY = \"api-key\""), "{said}");

    let said = said_of(
        "[mcp.office]\nurl = \"https://tools.example/mcp\"\n\
         [[tools]]\nname = \"hours\"\nmcp = \"office\"\nidempotent = true\nsay_done.es = \"Ya.\"\n\
         [[tools]]\nname = \"expert\"\nsay_done.es = \"Ya.\"\n\
         [tools.delegate]\nurl = \"https://llm.example/v1\"\nmodel = \"large\"\ntools = [\"hours\"]\n",
    );
    assert!(said.contains("\"hours\" is of an MCP server, which may make a task of it"), "{said}");
    assert!(said.contains("no tools: none here can be used"), "{said}");
}
